/** The pattern of model names, which are repository names of the OCI distribution spec. */

const component = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";

export const repositoryPattern = new RegExp(`^${component}(?:/${component})*$`);

/** Longest name. The spec has no limit; clients and registries accept names up to this length. */
export const maxRepositoryLength = 255;
