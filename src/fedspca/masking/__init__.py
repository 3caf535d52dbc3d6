"""Secure aggregation, both sides of one protocol: a coordinator learns the sum of the sites' terms and no single one.

``messages`` names what travels. ``secret_sharing`` has the keys, key streams and shared secrets, ``fixed_point`` the
integers that are masked. ``party`` is the site's part and ``aggregator`` the coordinator's. Among many sites the site's
part is ``neighbours``, with the pairs of ``graph``.
"""
