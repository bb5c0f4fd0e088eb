/** Docker Hub differs from other registries in the host of the API, the keys of logins and names without an owner. */

const HUB = "docker.io";
const API_HOST = "registry-1.docker.io";
/** Other host names of Docker Hub, for which references use `docker.io`. */
const otherNames = /^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)$/;

/** The host in lower case, with `docker.io` for every name of Docker Hub. */
export function canonicalHost(host: string): string {
  const lower = host.toLowerCase();
  return otherNames.test(lower) ? HUB : lower;
}

/** Host that serves the API of a registry. */
export function apiHostOf(host: string): string {
  return host === HUB ? API_HOST : host;
}

/** The repository's name in the API: on Docker Hub, `digits` is `library/digits`. */
export function apiRepository(host: string, repository: string): string {
  return host === HUB && !repository.includes("/") ? `library/${repository}` : repository;
}

/** Keys under which `docker login` stores credentials. Credential helpers get the first key. */
export function loginKeys(host: string): readonly string[] {
  return host === HUB ? ["https://index.docker.io/v1/", HUB, API_HOST] : [host];
}
