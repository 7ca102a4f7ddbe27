"""
The web timeline: the engine's verbs for a person with a browser.

`app` names the addresses, `guard` refuses what did not come from our own page, `timeline`, `changes` and `plans` turn the engine's
values into JSON, `live` sends what is new, `serving` runs all of it on the loopback interface. `static` holds the page, built
from `front`. No rule of the domain is here; the engine holds them.
"""
