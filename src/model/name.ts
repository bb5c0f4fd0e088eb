/** What a model may be called: the grammar of a repository's name in the OCI distribution spec. */

const component = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";

export const repositoryPattern = new RegExp(`^${component}(?:/${component})*$`);

/** The spec sets no limit; clients and registries take names of at most so many characters. */
export const maxRepositoryLength = 255;
