"""What regret-matching rules are called: a table of name → `module:object`; a new rule is a line here."""

from __future__ import annotations

RULES: dict[str, str] = {
    "cfr": "jaxgadget.kernels.regret:CFR",
    "cfr+": "jaxgadget.kernels.regret:CFR_PLUS",
    "linear-cfr": "jaxgadget.kernels.regret:LINEAR_CFR",
    "dcfr": "jaxgadget.kernels.regret:DCFR",
    "pcfr+": "jaxgadget.kernels.regret:PCFR_PLUS",
    "sapcfr+": "jaxgadget.kernels.regret:SAPCFR_PLUS",
}
"""Rules, each an object that keeps `jaxgadget.kernels.regret.Rule`."""
