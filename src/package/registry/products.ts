/** Differences between registry products such as Docker Hub and Harbor, in one table. */

export interface RegistryProduct {
  /** Name of the product; undefined if it is unknown. */
  readonly name?: string;
  /** Host of the API, if it is not the host in references. */
  readonly apiHost?: string;
  /** Owner that completes a repository name without a slash, such as `library` of Docker Hub. */
  readonly officialOwner?: string;
  /** Keys of `docker login` entries, if not the host. Credential helpers get the first key. */
  readonly loginKeys?: readonly string[];
  /** Largest accepted chunk of an upload, in bytes. */
  readonly maxChunkBytes: number;
  /**
   * Noun for messages: the object that the user must create before the first push. Undefined if a push creates
   * everything.
   */
  readonly createFirst?: string;
  /** Whether the product answers 401 or 403 instead of 404 for a missing repository. */
  readonly hidesMissing: boolean;
}

interface KnownProduct extends RegistryProduct {
  readonly name: string;
  /** Matches the hosts in references to the product. */
  readonly hosts: RegExp;
  /** `service` in the product's authentication challenges, which identifies it on other hosts. */
  readonly service?: string;
}

const MiB = 1024 * 1024;
const unknownProduct: RegistryProduct = { maxChunkBytes: 16 * MiB, hidesMissing: false };

export const knownProducts = {
  dockerHub: {
    ...unknownProduct,
    name: "Docker Hub",
    hosts: /^docker\.io$/,
    service: "registry.docker.io",
    apiHost: "registry-1.docker.io",
    officialOwner: "library",
    loginKeys: ["https://index.docker.io/v1/", "docker.io", "registry-1.docker.io"],
    hidesMissing: true,
  },
  ghcr: {
    ...unknownProduct,
    name: "GitHub's registry",
    hosts: /^ghcr\.io$/,
    service: "ghcr.io",
    maxChunkBytes: 4 * MiB,
    hidesMissing: true,
  },
  ecr: {
    ...unknownProduct,
    name: "Amazon ECR",
    hosts: /^(?:\d+\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?|public\.ecr\.aws)$/,
    createFirst: "the repository: aws ecr create-repository",
  },
  gitlab: {
    ...unknownProduct,
    name: "GitLab",
    hosts: /^registry\.gitlab\.com$/,
    service: "container_registry",
    createFirst: "the project",
    hidesMissing: true,
  },
  harbor: {
    ...unknownProduct,
    name: "Harbor",
    // Harbor runs on any host, so only its demo server is known by name.
    hosts: /^demo\.goharbor\.io$/,
    service: "harbor-registry",
    createFirst: "the project",
    hidesMissing: true,
  },
  quay: { ...unknownProduct, name: "Quay", hosts: /^quay\.io$/, hidesMissing: true },
} as const satisfies Record<string, KnownProduct>;

/** Matches other host names of Docker Hub. */
const dockerHubNames = /^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)$/;

/** The host in lower case. Every name of Docker Hub becomes `docker.io`. */
export function canonicalHost(host: string): string {
  const lower = host.toLowerCase();
  return dockerHubNames.test(lower) ? "docker.io" : lower;
}

export function productOf(host: string): RegistryProduct {
  return all().find(({ hosts }) => hosts.test(host)) ?? unknownProduct;
}

/** The product that sends this `service` in its authentication challenges; undefined if there is none. */
export function productOfService(service: string | undefined): RegistryProduct | undefined {
  return service === undefined ? undefined : all().find((one) => one.service === service);
}

function all(): readonly KnownProduct[] {
  return Object.values(knownProducts);
}
