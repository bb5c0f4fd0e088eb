/** Faults of every kind, injected into real servers; those that kill processes are in a file beside this one, which runs meanwhile. */
import { faults, kills } from "./torture/faults.ts";
import { testFaults } from "./torture/short-form.ts";

testFaults(faults.filter((fault) => !kills.includes(fault)));
