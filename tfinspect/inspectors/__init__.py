"""One question each: a spec in, a frozen result out, closed form and measurement joined."""
