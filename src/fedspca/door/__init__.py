"""A site's door to a study: what its owner agreed to, and which letters are answered."""
