/** Options of all commands that use registries. */
import { flagOff, option } from "../../../base/option.ts";

export const registryOptions = {
  plainHttp: option({
    description: "Use http without TLS for registries on other machines too",
    ...flagOff,
  }),
} as const;

export const credentialsHelp =
  "Credentials come from docker login (or podman, skopeo, oras): $REGISTRY_AUTH_FILE, or config.json in $DOCKER_CONFIG or ~/.docker, with its credential helpers. Registries on this machine are used without TLS.";
