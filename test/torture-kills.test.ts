/** Processes of real servers that are killed, or kill themselves. */
import { kills } from "./torture/faults.ts";
import { testFaults } from "./torture/short-form.ts";

testFaults(kills);
