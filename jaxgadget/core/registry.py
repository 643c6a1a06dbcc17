"""Names of regret-matching rules: a table of name → `module:object`; a new rule is a line here."""

from __future__ import annotations

RULES: dict[str, str] = {
    "cfr": "jaxgadget.core.regret:CFR",
    "cfr+": "jaxgadget.core.regret:CFR_PLUS",
    "linear-cfr": "jaxgadget.core.regret:LINEAR_CFR",
    "dcfr": "jaxgadget.core.regret:DCFR",
    "pcfr+": "jaxgadget.core.regret:PCFR_PLUS",
    "sapcfr+": "jaxgadget.core.regret:SAPCFR_PLUS",
}
"""Rules, each an object that implements `jaxgadget.core.regret.Rule`."""
