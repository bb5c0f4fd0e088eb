/**
 * The offer of a server: the models that its clients use. A newer server replaces an older one only if it offers every
 * model of the older one.
 */
import { z } from "zod";
import type { ServeConfig } from "./config.ts";
import type { ServedOptions } from "./model-engine.ts";

export const offerSchema = z.object({
  models: z.array(z.object({ name: z.string(), tag: z.string() })),
  /** Whether the server has routes for predictions. */
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

/** Two builds of one repository have names with their tags. A colon before a slash is part of a host: `host:5000/digits`. */
function withoutTag(name: string): string {
  return name.replace(/:[^/:]*$/, "");
}
