/**
 * Where the server stands in its life; routes answer by it. A server that is `leaving` still takes work, from routers that have not learnt of it
 * yet; one that is `draining` finishes what it has.
 */
export type Phase = "starting" | "ready" | "leaving" | "draining";

export class Lifecycle {
  phase: Phase = "starting";
}
