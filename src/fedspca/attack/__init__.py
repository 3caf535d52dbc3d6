"""What plain messages give away: the attack that masking stops."""

from fedspca.attack.reconstruction import Transcript, error_by_round, reconstruct

__all__ = ["Transcript", "error_by_round", "reconstruct"]
