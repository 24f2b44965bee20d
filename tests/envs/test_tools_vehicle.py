"""The car answers, fails and changes its state as BFCL's VehicleControlAPI."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from fctncalling.envs.tools.bfcl.vehicle_control import VehicleControlAPI

DOORS = ["driver", "passenger", "rear_left", "rear_right"]


def car(**scenario: Any) -> VehicleControlAPI:
    api = VehicleControlAPI()
    api._load_scenario(scenario)
    return api


def car_ready_to_start(**scenario: Any) -> VehicleControlAPI:
    api = car(doorStatus=dict.fromkeys(DOORS, "locked"), **scenario)
    api.pressBrakePedal(1)
    return api


def test_defaults_are_public_in_load_order() -> None:
    public = {name: value for name, value in vars(car()).items() if not name.startswith("_")}
    assert list(public.items()) == [
        ("fuelLevel", 0.0),
        ("batteryVoltage", 12.6),
        ("engine_state", "stopped"),
        ("remainingUnlockedDoors", 4),
        ("doorStatus", dict.fromkeys(DOORS, "unlocked")),
        ("acTemperature", 25.0),
        ("fanSpeed", 50),
        ("acMode", "auto"),
        ("humidityLevel", 50.0),
        ("headLightStatus", "off"),
        ("parkingBrakeStatus", "released"),
        ("brakePedalStatus", "released"),
        ("distanceToNextVehicle", 50.0),
        ("cruiseStatus", "inactive"),
        ("destination", "None"),
        ("frontLeftTirePressure", 32.0),
        ("frontRightTirePressure", 32.0),
        ("rearLeftTirePressure", 30.0),
        ("rearRightTirePressure", 30.0),
        ("long_context", False),
    ]


def test_scenario_names_differ_from_attributes_where_bfcl_differs() -> None:
    api = car(
        engineState="running",
        engine_state="x",
        parkingBrakeForce=3.0,
        slopeAngle=4.0,
        brakePedalForce=5.0,
    )
    assert api.engine_state == "running"
    assert api.displayCarStatus("parkingBrake") == {
        "parkingBrakeStatus": "released",
        "parkingBrakeForce": 3.0,
        "slopeAngle": 4.0,
    }
    assert api.displayCarStatus("brakePedal") == {
        "brakePedalStatus": "released",
        "brakePedalForce": 5.0,
    }


def test_two_cars_share_no_doors() -> None:
    first, second = car(), car()
    first.lockDoors(False, DOORS)
    assert second.doorStatus == dict.fromkeys(DOORS, "unlocked")


def test_engine_starts_with_an_empty_tank_if_doors_and_pedal_allow() -> None:
    expected = {"engineState": "running", "fuelLevel": 0.0, "batteryVoltage": 12.6}
    api = car_ready_to_start()
    assert api.startEngine("START") == expected
    assert api.engine_state == "running"


def test_stop_stops_the_engine_and_yet_answers_an_error() -> None:
    api = car_ready_to_start(engineState="running")
    assert api.startEngine("STOP") == {"error": "Invalid ignition mode."}
    assert api.engine_state == "stopped"
    unlocked = car(engineState="running")
    assert "error" in unlocked.startEngine("STOP")
    assert unlocked.engine_state == "stopped"


def test_conditions_of_starting_are_tested_doors_pedal_force_fuel_mode() -> None:
    api = car(fuelLevel=-1.0)
    api.lockDoors(False, ["passenger", "driver"])
    assert api.startEngine("x") == {
        "error": "All doors must be locked before starting the engine. "
        "Here are the unlocked doors: rear_left, rear_right"
    }
    api.lockDoors(False, DOORS)
    assert api.startEngine("x") == {
        "error": "Brake pedal needs to be pressed when starting the engine."
    }
    api.pressBrakePedal(0.999)
    assert api.startEngine("x") == {
        "error": "Must press the brake fully before starting the engine."
    }
    api.pressBrakePedal(1.0)
    assert api.startEngine("x") == {"error": "Fuel tank is empty."}
    api.fuelLevel = 0.0
    assert api.startEngine("x") == {"error": "Invalid ignition mode."}


def test_tank_holds_fifty_gallons() -> None:
    api = car(fuelLevel=20.0)
    assert api.fillFuelTank(-0.1) == {"error": "Fuel amount cannot be negative."}
    assert api.fillFuelTank(30.1) == {"error": "Cannot fill gas above the tank capacity."}
    assert api.fillFuelTank(30) == {"fuelLevel": 50.0}
    empty = {"error": "Fuel tank is empty. Min fuel level is 0 gallons."}
    assert car(fuelLevel=-5.0).fillFuelTank(1) == empty


def test_fahrenheit_is_stored_converted_and_answered_as_given() -> None:
    api = car(humidityLevel=40.0)
    result = api.adjustClimateControl(temperature=72, unit="fahrenheit", fanSpeed=100, mode="fog")
    assert result == {"currentACTemperature": 72, "climateMode": "fog", "humidityLevel": 40.0}
    assert (api.acTemperature, api.fanSpeed, api.acMode) == ((72 - 32) * 5 / 9, 100, "fog")
    assert api.adjustClimateControl(18)["currentACTemperature"] == 18
    assert (api.acTemperature, api.fanSpeed, api.acMode) == (18, 50, "auto")


def test_fan_speed_out_of_range_changes_nothing_but_a_bad_temperature_is_kept() -> None:
    api: Any = car()
    assert api.adjustClimateControl(10, fanSpeed=101) == {
        "error": "Fan speed must be between 0 and 100."
    }
    assert api.acTemperature == 25.0
    with pytest.raises(TypeError, match=r"^unsupported operand type"):
        api.adjustClimateControl("hot", unit="fahrenheit", fanSpeed=1)
    assert (api.acTemperature, api.fanSpeed) == ("hot", 50)


def test_a_copied_car_draws_the_same_and_leaves_the_original_alone() -> None:
    api = car()
    twin = copy.deepcopy(api)
    drawn = [twin.get_current_speed() for _ in range(3)]
    assert [api.get_current_speed() for _ in range(3)] == drawn
    twin.lockDoors(False, DOORS)
    assert api.remainingUnlockedDoors == 4


@pytest.mark.parametrize(
    ("option", "status"),
    [
        ("battery", {"batteryVoltage": 12.6}),
        ("headlights", {"headlightStatus": "off"}),
        (
            "parkingBrake",
            {"parkingBrakeStatus": "released", "parkingBrakeForce": 0.0, "slopeAngle": 0.0},
        ),
        ("brakePedal", {"brakePedalStatus": "released", "brakePedalForce": 0.0}),
        ("engine", {"engineState": "stopped"}),
    ],
)
def test_status_of_a_part_has_its_own_keys_in_order(option: str, status: dict[str, Any]) -> None:
    assert list(car().displayCarStatus(option).items()) == list(status.items())


def test_pedal_force_is_answered_as_float_and_kept_raw() -> None:
    api = car()
    assert (
        repr(api.pressBrakePedal(1)) == "{'brakePedalStatus': 'pressed', 'brakePedalForce': 1000.0}"
    )
    assert repr(api.displayCarStatus("brakePedal")["brakePedalForce"]) == "1000"
    assert api.pressBrakePedal(1.01) == {"error": "Pedal position must be between 0 and 1."}
    assert api.brakePedalStatus == "pressed"
    released = {"brakePedalStatus": "released", "brakePedalForce": 0.0}
    assert api.pressBrakePedal(0) == released
    api.pressBrakePedal(0.5)
    assert api.releaseBrakePedal() == released
    assert api.brakePedalStatus == "released"


def test_cruise_control_keeps_the_distance_of_a_refused_speed() -> None:
    api = car(engineState="running")
    for speed in (-5, 125, 63):
        assert api.setCruiseControl(speed, True, 100 + speed) == {"error": "Invalid speed"}
        assert (api.distanceToNextVehicle, api.cruiseStatus) == (100.0 + speed, "inactive")
    on = {"cruiseStatus": "active", "currentSpeed": 65.0, "distanceToNextVehicle": 7.0}
    assert api.setCruiseControl(65, True, 7) == on
    off = {"cruiseStatus": "inactive", "currentSpeed": 63.0, "distanceToNextVehicle": 8.0}
    assert api.setCruiseControl(63, False, 8) == off
    assert api.distanceToNextVehicle == 8.0


def test_destination_is_kept_before_its_type_fails() -> None:
    api: Any = car()
    assert api.set_navigation("1 Main St, A, B") == {"status": "Navigating to 1 Main St, A, B"}
    with pytest.raises(TypeError, match=r'^can only concatenate str \(not "int"\) to str$'):
        api.set_navigation(5)
    assert api.destination == 5


def test_readings_are_drawn_in_call_order_from_one_seeded_stream() -> None:
    stream, api = random.Random(141053), car()
    assert api.get_outside_temperature_from_google() == {
        "outsideTemperature": stream.uniform(-10.0, 40.0)
    }
    assert api.get_current_speed() == {"currentSpeed": stream.uniform(0.0, 120.0)}
    assert car(random_seed=3).get_current_speed() == {
        "currentSpeed": random.Random(3).uniform(0.0, 120.0)
    }


def test_automatic_headlights_are_off() -> None:
    api = car()
    assert api.setHeadlights("on") == {"headlightStatus": "on"}
    assert api.setHeadlights("dim") == {"error": "Invalid headlight mode."}
    assert api.headLightStatus == "on"
    assert api.setHeadlights("auto") == {"headlightStatus": "off"}
    assert api.setHeadlights("off") == {"headlightStatus": "off"}
