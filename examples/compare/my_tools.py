"""A stateful tool."""


class Thermostat:
    """A thermostat that remembers its setting."""

    def _load_scenario(self, scenario: dict, long_context: bool = False) -> None:
        self.degrees = scenario["degrees"]

    def set_degrees(self, degrees: int) -> dict:
        """Set the temperature.

        Args:
            degrees: Degrees Celsius, 5 to 30.
        """
        if not 5 <= degrees <= 30:
            return {"error": "degrees: expected 5 to 30"}
        self.degrees = degrees
        return {"degrees": degrees}

    def get_degrees(self) -> dict:
        """Return the temperature that is set."""
        return {"degrees": self.degrees}
