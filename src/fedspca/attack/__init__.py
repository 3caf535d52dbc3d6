"""What plain messages reveal: an attack that recovers a site's covariance, and that masking prevents."""

from fedspca.attack.reconstruction import Transcript, error_by_round, reconstruct

__all__ = ["Transcript", "error_by_round", "reconstruct"]
