/** Common options of commands that use registries. */
import { flag, option } from "../../command-line/option.ts";

export const registryOptions = {
  plainHttp: option({
    description: "Speak http, without TLS, with registries that are not on this machine, too",
    default: false,
    parse: flag,
  }),
} as const;

/** Help text on credentials. */
export const credentialsHelp =
  "Credentials are those of docker login (or podman, skopeo, oras): $REGISTRY_AUTH_FILE, or config.json in $DOCKER_CONFIG or ~/.docker, with its credential helpers. Registries on this machine are spoken to without TLS.";
