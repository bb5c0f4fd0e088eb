/** All kinds of faults, in the order of their injection. */
import type { Fault } from "./fault.ts";
import { clocks } from "./faults/clocks.ts";
import { disks } from "./faults/disks.ts";
import { engineKills } from "./faults/engine-kills.ts";
import { frontKills } from "./faults/front-kills.ts";
import { killingInputs } from "./faults/killing-inputs.ts";
import { large } from "./faults/large.ts";
import { leaks } from "./faults/leaks.ts";
import { malformed } from "./faults/malformed.ts";
import { memory } from "./faults/memory.ts";
import { models } from "./faults/models.ts";
import { overload } from "./faults/overload.ts";
import { powerLoss } from "./faults/power-loss.ts";
import { replicas } from "./faults/replicas.ts";
import { serverKills } from "./faults/server-kills.ts";
import { stops } from "./faults/stops.ts";

export const kills: readonly Fault[] = [serverKills, engineKills, killingInputs, leaks, replicas];

/** Faults of disks and clocks. */
export const storeFaults: readonly Fault[] = [disks, powerLoss, clocks];

export const faults: readonly Fault[] = [
  ...kills,
  ...storeFaults,
  frontKills,
  stops,
  large,
  memory,
  malformed,
  overload,
  models,
];
