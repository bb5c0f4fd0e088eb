/** Options of all commands that use registries. */
import { flagOff, option } from "../../../base/option.ts";

export const registryOptions = {
  plainHttp: option({
    description: "Connect without TLS to registries on other machines, too",
    ...flagOff,
  }),
} as const;

export const credentialsHelp =
  "Credentials for registries come from docker login, podman, skopeo or oras: the file $REGISTRY_AUTH_FILE, or config.json in $DOCKER_CONFIG or ~/.docker, with its credential helpers. Connections use TLS, except to registries on this machine.";
