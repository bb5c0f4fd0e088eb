/** Differences between registry products such as Docker Hub and Harbor, in one table. */

export interface RegistryProduct {
  /** Name of the product; undefined if it is unknown. */
  readonly name?: string;
  /** Host that serves the API; undefined if it is the host in references. */
  readonly apiHost?: string;
  /** First path segment for a repository name without a slash. On Docker Hub: `library`. */
  readonly officialOwner?: string;
  /**
   * Keys under which `docker login` stores credentials; undefined if the key is the host. Credential helpers get the
   * first key.
   */
  readonly loginKeys?: readonly string[];
  /**
   * Text for messages: the object that the user must create before the first push. Undefined if a push needs no
   * preparation.
   */
  readonly createFirst?: string;
  /** Whether the registry answers 401 or 403 instead of 404 for a missing repository. */
  readonly hidesMissing: boolean;
}

interface KnownProduct extends RegistryProduct {
  readonly name: string;
  readonly hosts: RegExp;
  /** Identifies the product on any host: the parameter `service` of its `WWW-Authenticate` headers. */
  readonly service?: string;
}

const unknownProduct: RegistryProduct = { hidesMissing: false };

const knownProducts = {
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
    hidesMissing: true,
  },
  ecr: {
    ...unknownProduct,
    name: "Amazon ECR",
    hosts: /^(?:\d+\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?|public\.ecr\.aws)$/,
    createFirst: "the repository: aws ecr create-repository",
  },
  harbor: {
    ...unknownProduct,
    name: "Harbor",
    // Users run Harbor on hosts with any name, so only its public demo server is known by name.
    hosts: /^demo\.goharbor\.io$/,
    service: "harbor-registry",
    createFirst: "the project",
    hidesMissing: true,
  },
} as const satisfies Record<string, KnownProduct>;

/** Other host names of Docker Hub, for which references use `docker.io`. */
const dockerHubNames = /^(?:index|registry-1|registry\.hub|www)\.docker\.(?:io|com)$/;

/** The host in lower case, with `docker.io` for every name of Docker Hub. */
export function canonicalHost(host: string): string {
  const lower = host.toLowerCase();
  return dockerHubNames.test(lower) ? "docker.io" : lower;
}

export function productOf(host: string): RegistryProduct {
  return all().find(({ hosts }) => hosts.test(host)) ?? unknownProduct;
}

/** The product whose `WWW-Authenticate` headers have this `service`; undefined if there is none. */
export function productOfService(service: string | undefined): RegistryProduct | undefined {
  return service === undefined ? undefined : all().find((one) => one.service === service);
}

function all(): readonly KnownProduct[] {
  return Object.values(knownProducts);
}
