"""A bicycle shop with state: fctncalling forge --api bike_shop:BikeShop (run it in this folder)."""

from __future__ import annotations

from typing import Any, Literal


class BikeShop:
    """Rentals and repairs of a small bicycle shop."""

    def __init__(self) -> None:
        self.bikes: dict[str, dict[str, Any]] = {
            "K-11": {"model": "Meadow", "out": False},
            "K-12": {"model": "Ridge", "out": True},
            "K-13": {"model": "Harbour", "out": False},
        }
        self.rentals: dict[str, dict[str, Any]] = {"M-501": {"bike_id": "K-12", "days": 2}}
        self.repairs: dict[str, dict[str, Any]] = {}
        self.next_number = 502

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        """Begin from a scenario: bikes, rentals, repairs, next_number."""
        for name, value in scenario.items():
            setattr(self, name, value)

    def find_bikes(self, model: str) -> dict[str, Any]:
        """Search the bikes of the shop by model.

        Args:
            model: Name of the model, such as Meadow.
        """
        found = [key for key, bike in self.bikes.items() if bike["model"].lower() == model.lower()]
        return {"bikes": found}

    def rent_bike(self, bike_id: str, days: int = 1) -> dict[str, Any]:
        """Rent a bike to a customer.

        Args:
            bike_id: Number of the bike, such as K-11.
            days: For how many days, 1 to 14.
        """
        if bike_id not in self.bikes:
            return {"error": f"no bike {bike_id}"}
        if self.bikes[bike_id]["out"]:
            return {"error": f"{bike_id} is rented out"}
        self.bikes[bike_id]["out"] = True
        rental_id = f"M-{self.next_number}"
        self.next_number += 1
        self.rentals[rental_id] = {"bike_id": bike_id, "days": days}
        return {"rental_id": rental_id}

    def return_bike(self, rental_id: str, damaged: bool = False) -> dict[str, Any]:
        """Take a rented bike back.

        Args:
            rental_id: Number of the rental, such as M-501.
            damaged: Whether the bike came back damaged.
        """
        if rental_id not in self.rentals:
            return {"error": f"no rental {rental_id}"}
        rental = self.rentals.pop(rental_id)
        self.bikes[rental["bike_id"]]["out"] = False
        return {"bike_id": rental["bike_id"], "to_pay": 15 * rental["days"] + 40 * damaged}

    def extend_rental(self, rental_id: str, days: int) -> dict[str, Any]:
        """Let a customer keep a bike longer.

        Args:
            rental_id: Number of the rental, such as M-501.
            days: How many days more, 1 to 14.
        """
        if rental_id not in self.rentals:
            return {"error": f"no rental {rental_id}"}
        self.rentals[rental_id]["days"] += days
        return {"rental_id": rental_id, "days": self.rentals[rental_id]["days"]}

    def book_repair(
        self, bike_id: str, work: Literal["brakes", "gears", "wheel", "service"], date: str
    ) -> dict[str, Any]:
        """Book a bike in for repair.

        Args:
            bike_id: Number of the bike, such as K-11.
            work: What has to be done.
            date: Day on which the bike comes in, as YYYY-MM-DD.
        """
        if bike_id not in self.bikes:
            return {"error": f"no bike {bike_id}"}
        repair_id = f"W-{self.next_number}"
        self.next_number += 1
        self.repairs[repair_id] = {"bike_id": bike_id, "work": work, "date": date}
        return {"repair_id": repair_id}

    def cancel_repair(self, repair_id: str) -> dict[str, Any]:
        """Cancel a repair.

        Args:
            repair_id: Number of the repair, such as W-502.
        """
        if repair_id not in self.repairs:
            return {"error": f"no repair {repair_id}"}
        return {"cancelled": self.repairs.pop(repair_id)}
