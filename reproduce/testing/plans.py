"""Plans to test with."""

from matrices import (
    Budget,
    Choice,
    Condition,
    Contrast,
    ExitCodeSymptom,
    OutputSymptom,
    Plan,
    Role,
    Setting,
    Source,
    SourceKind,
    Symptom,
)
from policies.registry import complete

EXIT_CODES = ExitCodeSymptom(matched=(1,), clean=(0,))
WORDS = OutputSymptom(pattern="VIOLATED", exit=(1,), clean="^HELD$")


def two_arm_plan(
    trials: int,
    *,
    symptom: Symptom = EXIT_CODES,
    policy: str = "strict/2",
    wall_us: int | None = None,
    parallel: int = 2,
    seed: int = 11,
    cmd: tuple[str, ...] = ("probe",),
    env: tuple[Setting, ...] = (),
) -> Plan:
    """A plan of one treatment and one control condition, in this order, that run `cmd`."""
    conditions = tuple(
        Condition(
            name=f"arm={role}",
            choices=(Choice(factor="arm", level=role.value),),
            role=role,
            stratum="",
            cmd=cmd,
            timeout_us=60_000_000,
            env=env,
        )
        for role in Role
    )
    return Plan(
        title="two arms",
        source=Source(kind=SourceKind.NONE),
        symptoms=(symptom,),
        primary=symptom.name,
        conditions=conditions,
        contrasts=(Contrast(stratum="", treatment=0, control=1),),
        budget=Budget(trials=trials, parallel=parallel, wall_us=wall_us),
        policy=complete(policy, {}),
        seed=seed,
    )
