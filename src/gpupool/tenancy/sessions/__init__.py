"""Sessions of browsers: the cookie that a login sets, how long it lasts, and what ends it. Decision
0098."""
