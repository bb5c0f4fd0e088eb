/** The native addon for each supported minor of torch: build/addons/MINOR/sconce.node. */
import { join } from "node:path";
import { root } from "../setup/step.ts";

/** The release of torch that the addon of each minor is compiled against. */
export const releases = {
  "2.11": "2.11.0",
  "2.12": "2.12.0",
  "2.13": "2.13.0",
  "2.14": "2.14.1",
  "2.15": "2.15.0",
} as const;

export function addonPath(minor: string): string {
  return join(root, "build", "addons", minor, "sconce.node");
}

export async function pack(): Promise<void> {
  for (const minor of Object.keys(releases)) console.log(addonPath(minor));
}
