"""A custom environment, and training on it."""

import gymnasium as gym
from gymnasium.spaces import Text

from fctncalling import TrainConfig, Trainer


class Guess(gym.Env):
    """Guess a number from 1 to 9; the answer is higher or lower."""

    observation_space = action_space = Text(1000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number, self.tries = int(self.np_random.integers(1, 10)), 0
        return "Guess my number from 1 to 9.", {}

    def step(self, action):
        self.tries += 1
        guess = int(action) if action.strip().isdecimal() else 0
        right = guess == self.number
        hint = "higher" if guess < self.number else "lower"
        return hint, float(right), right or self.tries == 4, False, {}


if __name__ == "__main__":
    config = TrainConfig(num_updates=20, episodes_per_update=64)
    Trainer(config, env=Guess, model="path/to/model").run()
