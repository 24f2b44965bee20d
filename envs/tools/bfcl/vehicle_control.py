"""BFCL's car (`VehicleControlAPI`): engine, doors, climate, lights, brakes, cruise control."""

from __future__ import annotations

from typing import Any

from fctncalling.envs.tools import load_bfcl_table
from fctncalling.envs.tools.bfcl.long_context import long_context_table
from fctncalling.envs.tools.tool_state import RandomStream, snapshot

Result = dict[str, Any]

_TABLE = load_bfcl_table("vehicle_control")
# where a scenario calls an attribute by another name
_SCENARIO_KEYS = {
    "engine_state": "engineState",
    "_parkingBrakeForce": "parkingBrakeForce",
    "_slopeAngle": "slopeAngle",
    "_brakePedalForce": "brakePedalForce",
}
_NUM_DOORS: int = _TABLE["default_state"]["remainingUnlockedDoors"]


class VehicleControlAPI:
    """BFCL's car; in long context its answers are very long.

    Fuel in gallons, distances on the road in km, temperatures in degrees Celsius, forces in
    newtons, tyre pressures in psi. Arguments are used as they come, as in BFCL: a wrong type
    surfaces as the interpreter's own error text, with all that was changed before it left changed.
    """

    fuelLevel: float
    batteryVoltage: float
    engine_state: str
    remainingUnlockedDoors: int
    doorStatus: dict[str, str]
    acTemperature: float
    fanSpeed: int
    acMode: str
    humidityLevel: float
    headLightStatus: str
    parkingBrakeStatus: str
    brakePedalStatus: str
    distanceToNextVehicle: float
    cruiseStatus: str
    destination: str
    frontLeftTirePressure: float
    frontRightTirePressure: float
    rearLeftTirePressure: float
    rearRightTirePressure: float
    long_context: bool
    # BFCL compares public attributes only, so these three may differ between an answer and the
    # truth.
    _parkingBrakeForce: float
    _slopeAngle: float
    _brakePedalForce: float

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        for name, default in _TABLE["default_state"].items():
            key = _SCENARIO_KEYS.get(name, name)
            setattr(self, name, scenario[key] if key in scenario else snapshot(default, {}))
        locked = sum(status == "locked" for status in self.doorStatus.values())
        self.remainingUnlockedDoors = _NUM_DOORS - locked
        self.long_context = long_context
        self._draws = RandomStream(scenario.get("random_seed", _TABLE["default_random_seed"]))

    def startEngine(self, ignitionMode: str) -> Result:
        """Start the engine if doors, brake pedal and fuel allow.

        "STOP" stops it and yet answers an error.
        """
        if ignitionMode == "STOP":
            self.engine_state = "stopped"
        if self.remainingUnlockedDoors > 0:
            unlocked = [door for door, status in self.doorStatus.items() if status == "unlocked"]
            return {
                "error": "All doors must be locked before starting the engine. "
                "Here are the unlocked doors: " + ", ".join(unlocked)
            }
        if self.brakePedalStatus != "pressed":
            return {"error": "Brake pedal needs to be pressed when starting the engine."}
        if self._brakePedalForce != _TABLE["max_brake_force"]:
            return {"error": "Must press the brake fully before starting the engine."}
        if self.fuelLevel < _TABLE["min_fuel_level"]:
            return {"error": "Fuel tank is empty."}
        if ignitionMode != "START":
            return {"error": "Invalid ignition mode."}
        self.engine_state = "running"
        return {
            "engineState": self.engine_state,
            "fuelLevel": self.fuelLevel,
            "batteryVoltage": self.batteryVoltage,
        }

    def fillFuelTank(self, fuelAmount: float) -> Result:
        """Add an amount of fuel, as much as the tank can hold."""
        if fuelAmount < 0:
            return {"error": "Fuel amount cannot be negative."}
        if self.fuelLevel + fuelAmount > _TABLE["max_fuel_level"]:
            return {"error": "Cannot fill gas above the tank capacity."}
        if self.fuelLevel + fuelAmount < _TABLE["min_fuel_level"]:
            return {"error": "Fuel tank is empty. Min fuel level is 0 gallons."}
        self.fuelLevel += fuelAmount
        return {"fuelLevel": self.fuelLevel}

    def lockDoors(self, unlock: bool, door: list[str]) -> Result:
        """Lock or unlock doors one by one.

        An unknown name stops the loop, not what was done before it.
        """
        status, change = ("unlocked", 1) if unlock else ("locked", -1)
        for name in door:
            if self.doorStatus[name] != status:
                self.doorStatus[name] = status
                self.remainingUnlockedDoors += change
        return {"lockStatus": status, "remainingUnlockedDoors": self.remainingUnlockedDoors}

    def adjustClimateControl(
        self, temperature: float, unit: str = "celsius", fanSpeed: int = 50, mode: str = "auto"
    ) -> Result:
        """Set temperature, fan speed and mode of the climate control.

        Fahrenheit is stored converted, and answered unconverted.
        """
        if not 0 <= fanSpeed <= 100:
            return {"error": "Fan speed must be between 0 and 100."}
        self.acTemperature = temperature
        if unit == "fahrenheit":
            self.acTemperature = (temperature - 32) * 5 / 9
        self.fanSpeed = fanSpeed
        self.acMode = mode
        return {
            "currentACTemperature": temperature,
            "climateMode": mode,
            "humidityLevel": self.humidityLevel,
        }

    def get_outside_temperature_from_google(self) -> Result:
        """Return a random outside temperature."""
        weather: Result = long_context_table("LONG_WEATHER_EXTENSION") if self.long_context else {}
        weather["outsideTemperature"] = self._draws.uniform(*_TABLE["outside_temperature_range"])
        return weather

    def get_outside_temperature_from_weather_com(self) -> Result:
        """Return an error, always."""
        return {"error": 404}

    def setHeadlights(self, mode: str) -> Result:
        """Set the headlights on or off; "auto" switches them off."""
        if mode not in ["on", "off", "auto"]:
            return {"error": "Invalid headlight mode."}
        self.headLightStatus = "on" if mode == "on" else "off"
        return {"headlightStatus": self.headLightStatus}

    def displayCarStatus(self, option: str) -> Result:
        """Return the status of one part of the car."""
        status: Result = {}
        if self.long_context:
            status["metadata"] = long_context_table("CAR_STATUS_METADATA_EXTENSION")
        match option:
            case "fuel":
                status["fuelLevel"] = self.fuelLevel
            case "battery":
                status["batteryVoltage"] = self.batteryVoltage
            case "doors":
                status["doorStatus"] = self.doorStatus
            case "climate":
                status["currentACTemperature"] = self.acTemperature
                status["fanSpeed"] = self.fanSpeed
                status["climateMode"] = self.acMode
                status["humidityLevel"] = self.humidityLevel
            case "headlights":
                status["headlightStatus"] = self.headLightStatus
            case "parkingBrake":
                status["parkingBrakeStatus"] = self.parkingBrakeStatus
                status["parkingBrakeForce"] = self._parkingBrakeForce
                status["slopeAngle"] = self._slopeAngle
            case "brakePedal":
                status["brakePedalStatus"] = self.brakePedalStatus
                status["brakePedalForce"] = self._brakePedalForce
            case "engine":
                status["engineState"] = self.engine_state
            case _:
                status["error"] = "Invalid option"
        return status

    def activateParkingBrake(self, mode: str) -> Result:
        """Engage or release the parking brake; the slope reads 10 degrees afterwards."""
        if mode not in ["engage", "release"]:
            return {"error": "Invalid mode"}
        engaged = mode == "engage"
        self.parkingBrakeStatus = "engaged" if engaged else "released"
        self._parkingBrakeForce = _TABLE["parking_brake_force_engaged"] if engaged else 0.0
        self._slopeAngle = _TABLE["slope_after_parking_brake"]
        result: Result = {}
        if self.long_context:
            result["parkingBrakeInstruction"] = long_context_table("PARKING_BRAKE_INSTRUCTION")
        result["parkingBrakeStatus"] = self.parkingBrakeStatus
        result["_parkingBrakeForce"] = self._parkingBrakeForce
        result["_slopeAngle"] = self._slopeAngle
        return result

    def pressBrakePedal(self, pedalPosition: float) -> Result:
        """Press the brake pedal to a position from 0 (released) to 1."""
        if not 0 <= pedalPosition <= 1:
            return {"error": "Pedal position must be between 0 and 1."}
        if pedalPosition == 0:
            return self.releaseBrakePedal()
        self.brakePedalStatus = "pressed"
        # An int position leaves an int.
        self._brakePedalForce = pedalPosition * _TABLE["max_brake_force"]
        return {
            "brakePedalStatus": self.brakePedalStatus,
            "brakePedalForce": float(self._brakePedalForce),
        }

    def releaseBrakePedal(self) -> Result:
        """Release the brake pedal."""
        self.brakePedalStatus = "released"
        self._brakePedalForce = 0.0
        return {"brakePedalStatus": "released", "brakePedalForce": 0.0}

    def setCruiseControl(
        self, speed: float, activate: bool, distanceToNextVehicle: float
    ) -> Result:
        """Set the cruise control's speed, state and distance to the next vehicle.

        The distance is stored even where the speed is then refused.
        """
        distance, speed = float(distanceToNextVehicle), float(speed)
        if self.engine_state == "stopped":
            return {"error": "Start the engine before activating the cruise control."}
        self.distanceToNextVehicle = distance
        if activate and (speed < 0 or speed > 120 or speed % 5 != 0):
            return {"error": "Invalid speed"}
        self.cruiseStatus = "active" if activate else "inactive"
        return {
            "cruiseStatus": self.cruiseStatus,
            "currentSpeed": speed,
            "distanceToNextVehicle": distance,
        }

    def get_current_speed(self) -> Result:
        """Return a random speed."""
        return {"currentSpeed": self._draws.uniform(*_TABLE["speed_range"])}

    def display_log(self, messages: list[str]) -> Result:
        """Return the messages unchanged."""
        return {"log": messages}

    def estimate_drive_feasibility_by_mileage(self, distance: float) -> Result:
        """Return whether the fuel is enough for a distance."""
        return {"canDrive": not self.fuelLevel * _TABLE["miles_per_gallon"] < distance}

    def liter_to_gallon(self, liter: float) -> Result:
        """Convert liters to gallons."""
        return {"gallon": liter * _TABLE["liter_to_gallon"]}

    def gallon_to_liter(self, gallon: float) -> Result:
        """Convert gallons to liters."""
        return {"liter": gallon * _TABLE["gallon_to_liter"]}

    def estimate_distance(self, cityA: str, cityB: str) -> Result:
        """Return the distance between two zip codes, in either order."""
        result: Result = {"error": "distance not found in database."}
        for start, end, distance in _TABLE["distances_km"]:
            if (cityA == start and cityB == end) or (cityA == end and cityB == start):
                result = {"distance": distance}
                break
        if self.long_context:
            result["intermediaryCities"] = long_context_table("INTERMEDIARY_CITIES")
        return result

    def get_zipcode_based_on_city(self, city: str) -> Result:
        """Return a city's zip code, "00000" for an unknown value."""
        codes = (code for name, code in _TABLE["zipcodes"].items() if name == city)
        return {"zipcode": next(codes, _TABLE["unknown_zipcode"])}

    def set_navigation(self, destination: str) -> Result:
        """Set the destination; a value that is no text is stored before the call fails."""
        self.destination = destination
        return {"status": "Navigating to " + destination}

    def check_tire_pressure(self) -> Result:
        """Return the four tire pressures and whether their average is healthy."""
        total = self.frontLeftTirePressure + self.frontRightTirePressure
        total = total + self.rearLeftTirePressure + self.rearRightTirePressure
        lowest, highest = _TABLE["healthy_tire_average_range"]
        return {
            "frontLeftTirePressure": self.frontLeftTirePressure,
            "frontRightTirePressure": self.frontRightTirePressure,
            "rearLeftTirePressure": self.rearLeftTirePressure,
            "rearRightTirePressure": self.rearRightTirePressure,
            "healthy_tire_pressure": lowest <= total / 4 <= highest,
            "car_info": long_context_table("CAR_STATUS_METADATA_EXTENSION")
            if self.long_context
            else {},
        }

    def find_nearest_tire_shop(self) -> Result:
        """Return the nearest tire shop, always the same."""
        return {"shopLocation": _TABLE["tire_shop_location"]}
