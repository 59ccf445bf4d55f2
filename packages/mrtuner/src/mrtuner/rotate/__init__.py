"""Live credential rotation: two login roles of one group, blue and green, one in use at a time.

from mrtuner.rotate import Patience, rotate

outcome = rotate("host=db dbname=shop user=admin", "app", to="file:/run/secrets/db.json")
print(outcome.rotation.step, [holder.words for holder in outcome.holders])
"""

from mrtuner.rotate.answer import rotate
from mrtuner.rotate.model import Credential, Holder, RoleGroup, RotationState, RotationStep
from mrtuner.rotate.rotation import RotationResult, Rotator, Standing
from mrtuner.rotate.sessions import Patience
from mrtuner.rotate.stores import Store

__all__ = [
    "Credential",
    "Holder",
    "Patience",
    "RoleGroup",
    "RotationResult",
    "RotationState",
    "RotationStep",
    "Rotator",
    "Standing",
    "Store",
    "rotate",
]
