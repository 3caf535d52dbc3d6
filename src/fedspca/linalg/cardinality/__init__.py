"""Sparse principal components of a symmetric matrix S that is known as a whole: the best loadings, and upper bounds.

The problem is the maximum of the variance of span(w) over loadings w with at most ``k_j`` non-zeros in column j. The
code here uses S only. It does not depend on how S was computed.

======================  ==========================================================================
``selection``           the k largest of many scores, ties settled by a rule
``beside``              one column beside the span of the others, refitted exactly on its support
``column``              the search for one column: starts from every feature, power steps, swaps
``polish``              all columns refitted together on supports that stay
``joint``               the search for all columns: beams, sweeps, exchanges of pairs
``restarts``            the same from random supports, for what chance alone finds
``fewest``              the fewest non-zeros that keep a share of the variance
``partition``           features divided among components: a start for it
``removal``             what leaving entries out costs, once the others are refitted
``trades``              exchanges of entries that promise to gain
``bounds``              what no sparse loadings can exceed
``branch``              branch and bound for one column, until proved or out of time
``chains``              all sets of features on which some directions capture more than a level
``packings``            bounds for several columns, from lists of supports
``proof``               which of these bounds are computed, the cheapest first
======================  ==========================================================================
"""
