"""The innermost loops of a search, compiled from C: on small problems a call of numpy takes longer than its arithmetic.

Every function here has a twin in numpy, in the module that calls it. The twin defines what is computed: it is used
where no C compiler was at hand when the package was built (and with ``FEDSPCA_COMPILED=0``), and tests hold the two
against each other on random problems. Both take the same decisions, so a fit finds the same loadings with either of
them, but for rare problems of many overlapping components, where rounding decides between moves that gain the same.

What may never change:

- a compiled function draws nothing, keeps nothing between two calls, and reads and writes only the arrays that it is
  handed. Their shapes and types are checked here, in Python, before the call;
- where C cannot allocate memory, it says so, and a ``MemoryError`` is raised.

======================  ===================================================================================
``library``             the shared library, loaded once; None where there is none
``small.*``             eigenpairs, Cholesky factors and solutions of small dense problems
``factors.*``           factors and eigenpairs of dense matrices, the larger ones by scipy's LAPACK
``blas.*``              products with a matrix or its factor, by scipy's BLAS
``polar.*``             the orthonormal matrix nearest to a matrix
``columns.*``           the search for columns with few non-zeros, and what its C files share
``columns_select.c``    the k largest of many scores, and the order of columns
``columns_beside.c``    one column beside the span of the others: P S P, and refits on a support
``columns_one.c``       the search for one column beside the others
``columns_together.c``  orthogonal columns whose supports overlap, refitted together
``columns_refit.c``     orthogonal columns with many non-zeros, refitted as ``fewest_refit.c`` does
``columns_free.c``      Newton steps of columns that need not be orthogonal
``columns_points.c``    solutions whose columns are updated in turn
``columns_moves.c``     moves of one solution that change two columns at once
``columns_joint.c``     the search for all columns together, its stages and its memory
``fewest.*``            the search for the fewest non-zeros that keep a share of the variance
``fewest_refit.c``      loadings refitted on their supports, each group of columns by itself
``fewest_removal.c``    entries that are left out, in the order of what that costs
``fewest_trades.c``     pairs of entries that enter and leave
``partition.c``         loadings that share no feature; its wrapper is in ``fewest``
``stiefel.*``           retraction and multipliers on the sparse Stiefel manifold
``stiefel_newton.*``    Newton steps on it; their wrapper is in ``stiefel``
``proximal.*``          proximal steps for the l1 problem, and Newton steps between them
``soft_power.*``        thresholded power steps for one column, from many starts
``splitting.*``         steps of ADMM from many starts, and from one until they settle
======================  ===================================================================================
"""
