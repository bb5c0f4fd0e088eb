/** Where the server stands in its life; routes answer by it. */
export type Phase = "starting" | "ready" | "draining";

export class Lifecycle {
  phase: Phase = "starting";
}
