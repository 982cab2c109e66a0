"""The studio: a page in the browser to paint costs on a map and to watch the policy. The library computes everything."""
