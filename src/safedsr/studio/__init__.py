"""The studio: paint costs on a map in the browser and watch the policy; the library computes everything."""
