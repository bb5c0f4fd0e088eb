/**
 * The models that a server offers its clients. Without --replace, a newer server takes over a port only if it offers
 * all models of the older one, or the older one has started it.
 */
import { z } from "zod";
import type { ServeConfig } from "./config.ts";
import type { ServedOptions } from "./model-engine.ts";

export const offerSchema = z.object({
  models: z.array(z.object({ name: z.string(), tag: z.string() })),
  /** Whether the server has routes for predictions; false with --role worker. */
  answersClients: z.boolean(),
});
export type Offer = z.infer<typeof offerSchema>;

type Offered = Pick<ServedOptions, "name" | "split" | "isShadow"> & {
  readonly packaged: Pick<ServedOptions["packaged"], "tag">;
};

export function offerOf(models: readonly Offered[], { role }: Pick<ServeConfig, "role">): Offer {
  return {
    models: models
      .filter(({ isShadow, split }) => !isShadow || split !== undefined)
      .map(({ name, packaged, split }) => ({ name: split?.name ?? withoutTag(name), tag: packaged.tag })),
    answersClients: role !== "worker",
  };
}

/** The models as text: `digits:v1, upscale:v3`. */
export function offerText({ models }: Offer): string {
  return models.map(({ name, tag }) => `${name}:${tag}`).join(", ");
}

/** Why the newer server must not replace the older one, for the operator of the newer one; undefined if it may. */
export function lossOf(older: Offer, newer: Offer): string | undefined {
  const names = namesOf(newer);
  const lost = namesOf(older).filter((name) => !names.includes(name));
  const loss =
    lost.length > 0
      ? `its server serves ${lost.join(", ")}, and the new one serves only ${names.join(", ")}`
      : older.answersClients && !newer.answersClients
        ? "its server answers clients, and a worker (--role worker) does not"
        : undefined;
  return loss && `${loss}; choose another --port, or replace that server with --replace`;
}

function namesOf({ models }: Offer): string[] {
  return [...new Set(models.map(({ name }) => name))];
}

/** Removes the tag from a name such as `digits:v1`. In `host:5000/digits`, the colon belongs to the host. */
function withoutTag(name: string): string {
  return name.replace(/:[^/:]*$/, "");
}
