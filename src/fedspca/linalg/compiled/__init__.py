"""The innermost loops of a search, compiled from C: on small problems a call of numpy takes longer than its arithmetic.

Every function here has a twin in numpy, in the module that calls it. The twin defines what is computed: it is used
where no C compiler was at hand when the package was built (and with ``FEDSPCA_COMPILED=0``), and tests hold the two
against each other on random problems. So a fit finds the same loadings with either of them.

What may never change:

- a compiled function draws nothing, keeps nothing between two calls, and reads and writes only the arrays that it is
  handed. Their shapes and types are checked here, in Python, before the call;
- where C cannot allocate memory, it says so, and a ``MemoryError`` is raised.

======================  ==========================================================================
``library``             the shared library, loaded once; None where there is none
``columns``             the search for columns with few non-zeros
``small.h``             eigenpairs, Cholesky factors and solutions of small dense problems
``factors``             factors and eigenpairs of dense matrices, the larger ones by scipy's LAPACK
``stiefel``             retraction and Newton steps on the sparse Stiefel manifold
``blas``                products with a matrix or its factor, by scipy's BLAS
``polar.h``             the orthonormal matrix nearest to a matrix
``splitting``           steps of ADMM from many starts, and from one until they settle
``soft_power``          thresholded power steps for one column, from many starts
``proximal``            proximal steps for the l1 problem, and Newton steps between them
``fewest``              the search for the fewest non-zeros that keep a share of the variance
======================  ==========================================================================
"""
