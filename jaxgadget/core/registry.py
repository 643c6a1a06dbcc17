"""Names of regret-matching rules: a table of name → `module:object`. To add a rule, add a line."""

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
