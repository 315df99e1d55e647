"""Why a verdict is what it is: gate by gate and reason by reason, in words."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from policies import ContrastVerdict
from reproduce.report import words
from reproduce.report.figures import labelled
from reproduce.report.look import Look, draw, indent, item
from reproduce.report.model import Account
from reproduce.report.reasons import Advice
from reproduce.report.terminal import withheld_text
from reproduce.report.text import one_line


def explain_text(account: Account, look: Look) -> str:
    """Every contrast with its gates, figures and reasons, then the unresolved trials."""
    if account.is_sealed():
        return withheld_text(account, look)
    return draw(_explanation(account, look), look)


def _explanation(account: Account, look: Look) -> Iterator[RenderableType]:
    verdict = account.verdict
    title = look.text(one_line(account.plan.title), "bold")
    yield look.status(verdict.status).append("  ").append(title)
    yield indent(look.text(f"under {verdict.policy.name}. {words.which_declared(account)}"))
    yield indent(look.text(words.claim(account)))
    headline = account.headline()
    rest = [contrast for contrast in verdict.contrasts if contrast is not headline]
    for contrast in (headline, *rest):
        yield Text()
        yield from _contrast(account, contrast, look)
    yield Text()
    yield from _unresolved(account, look)
    yield look.text("not shown, or assumed", "bold")
    for line in words.not_shown(account):
        yield indent(item(look, line))
    extra = [reason for reason in verdict.reasons if reason not in headline.reasons]
    if extra:
        yield look.text("about the whole investigation", "bold")
    for reason in extra:
        yield indent(item(look, _advised(reason, words.advice(reason))))


def _contrast(account: Account, contrast: ContrastVerdict, look: Look) -> Iterator[RenderableType]:
    treatment, control = account.arms(contrast)
    number = f"contrast {contrast.contrast + 1} of {len(account.verdict.contrasts)}"
    names = f"{words.arm_name(treatment)} against {words.arm_name(control)}"
    head = f" (headline), {names}" if contrast is account.headline() else f", {names}"
    yield look.text(f"{number}{head}: {contrast.status}", "bold")
    yield indent(look.text(words.counts(treatment, control)))
    for gate in contrast.gates:
        end = "it holds" if gate.holds else "it does not hold"
        sentence = f"{gate.title}: declared {gate.declared}, measured {gate.measured}; {end}"
        yield indent(item(look, sentence, mark=look.holds(holds=gate.holds)))
    for title, value in labelled(contrast):
        yield indent(look.text(f"{title}: {value}"))
    tipping = words.tipping(contrast)
    if tipping is not None:
        yield indent(look.text(tipping))
    for reason in contrast.reasons:
        yield indent(item(look, _advised(reason, words.advice(reason))))


def _unresolved(account: Account, look: Look) -> Iterator[RenderableType]:
    totals = words.unresolved_totals(account)
    yield look.text("unresolved trials" if totals else "no trial is unresolved", "bold")
    for reason, count, known in totals:
        yield indent(item(look, _advised(f"{reason} ({count})", known)))


def _advised(name: str, known: Advice) -> str:
    return f"{name}: {known.meaning}. What to do: {known.remedy}."
