/** Where the registries of different makers differ, in one table. */

export interface Manners {
  /** The name of the product; undefined for a registry of no known maker. */
  readonly product?: string;
  /** The host of its API, where that is not the host of its references. */
  readonly apiHost?: string;
  /** The owner of repositories whose name has one part. */
  readonly officialOwner?: string;
  /** What `docker login` saves its logins under, if not under the host; the first is what credential helpers are asked for. */
  readonly logins?: readonly string[];
  /** The largest chunk of an upload that it takes. */
  readonly maxChunkBytes: number;
  /** What has to exist before the first push; undefined where a push creates all. */
  readonly createFirst?: string;
  /** Whether it answers 401 or 403, not 404, for a repository that does not exist. */
  readonly hidesMissing: boolean;
}

interface KnownManners extends Manners {
  readonly product: string;
  /** Hosts of references. */
  readonly hosts: RegExp;
  /** What a registry on any other host calls itself in its challenges. */
  readonly service?: string;
}

const MiB = 1024 * 1024;
const usual: Manners = { maxChunkBytes: 16 * MiB, hidesMissing: false };

export const knownManners = {
  dockerHub: {
    ...usual,
    product: "Docker Hub",
    hosts: /^docker\.io$/,
    service: "registry.docker.io",
    apiHost: "registry-1.docker.io",
    officialOwner: "library",
    logins: ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"],
    hidesMissing: true,
  },
  ghcr: {
    ...usual,
    product: "GitHub's registry",
    hosts: /^ghcr\.io$/,
    service: "ghcr.io",
    maxChunkBytes: 4 * MiB,
    hidesMissing: true,
  },
  ecr: {
    ...usual,
    product: "Amazon ECR",
    hosts: /^(?:\d+\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?|public\.ecr\.aws)$/,
    createFirst: "the repository: aws ecr create-repository",
  },
  gitlab: {
    ...usual,
    product: "GitLab",
    hosts: /^registry\.gitlab\.com$/,
    service: "container_registry",
    createFirst: "the project",
    hidesMissing: true,
  },
  harbor: {
    ...usual,
    product: "Harbor",
    // Harbor runs on hosts of any name.
    hosts: /^demo\.goharbor\.io$/,
    service: "harbor-registry",
    createFirst: "the project",
    hidesMissing: true,
  },
  quay: { ...usual, product: "Quay", hosts: /^quay\.io$/, hidesMissing: true },
} as const satisfies Record<string, KnownManners>;

/** Other names of Docker Hub, for which `docker.io` is the usual one. */
const dockerHubNames = /^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)$/;

/** The host as references spell it. */
export function usualHost(host: string): string {
  const lower = host.toLowerCase();
  return dockerHubNames.test(lower) ? "docker.io" : lower;
}

export function mannersOf(host: string): Manners {
  return all().find(({ hosts }) => hosts.test(host)) ?? usual;
}

/** The manners of a registry by the service that its challenge names. */
export function mannersOfService(service: string | undefined): Manners | undefined {
  return service === undefined ? undefined : all().find((one) => one.service === service);
}

function all(): readonly KnownManners[] {
  return Object.values(knownManners);
}
