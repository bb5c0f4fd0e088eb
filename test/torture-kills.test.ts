/** Kills and crashes of processes of real servers. */
import { kills } from "./torture/faults.ts";
import { testFaults } from "./torture/short-form.ts";

testFaults(kills);
