/** Opens what tells webhooks of predictions, as the operator allows it. */
import { version } from "../../../package.json";
import { AddressGuard } from "../../machine/network/address-guard.ts";
import { GuardedRequests } from "../../machine/network/guarded-requests.ts";
import type { ServeConfig } from "../config.ts";
import type { PredictionStore } from "../predictions/store.ts";
import { WebhookSender } from "./webhook-sender.ts";
import { Webhooks, type WebhooksOptions } from "./webhooks.ts";

/** Undefined without a secret: a message that is not signed could be anybody's. */
export function openWebhooks(
  { webhookSecret: secrets, allowPrivateUrls: allowPrivate }: ServeConfig,
  { store, ...options }: Pick<WebhooksOptions, "json" | "metrics" | "memory"> & { readonly store: PredictionStore },
): Webhooks | undefined {
  if (secrets.length === 0) return undefined;
  const { memory } = options;
  const guard = new AddressGuard({ allowPrivate });
  return new Webhooks({
    ...options,
    sender: new WebhookSender({
      requests: new GuardedRequests(guard),
      secrets,
      userAgent: `sconce/${version}`,
      memory,
    }),
    store: store.webhooks,
    read: (id) => store.get(id),
    check: (hostname) => guard.literal(hostname),
  });
}
