/** Path of the links that nobody has used yet. */
export const LINKS_PATH = '/operators/links';
/** Path of the operator tokens. */
export const TOKENS_PATH = '/operators/tokens';
