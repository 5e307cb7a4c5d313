import type { Batch } from '@carillon/store/documents';

/** Maximum texts of provider errors that a batch stores, besides {@link OTHER_ERROR}. */
export const MAX_ERROR_TEXTS = 16;
/** Maximum length of the stored part of a provider's error. */
const MAX_PROVIDER_ERROR_CHARACTERS = 200;
/** Text in place of a text beyond the limit, so that a recipient never shows another recipient's error. */
export const OTHER_ERROR = 'other';

/**
 * Creates the function that limits the texts of a batch: it returns the text, or {@link OTHER_ERROR} for one more text
 * than the batch stores.
 */
export function createErrorTexts({
  words = [],
  later = [],
}: Pick<Batch, 'words' | 'later'>): (text: string) => string {
  const readStored = () => {
    const stored = [...words.map(([text]) => text), ...later.flatMap(([, , , text]) => text ?? [])];
    return new Set(stored.filter((text) => text !== OTHER_ERROR));
  };
  let texts: Set<string> | undefined;
  return (text) => {
    // Most batches have no error.
    texts ??= readStored();
    if (texts.has(text)) return text;
    if (texts.size >= MAX_ERROR_TEXTS) return OTHER_ERROR;
    texts.add(text);
    return text;
  };
}

/** Makes a provider's text safe to store and to print in a terminal. */
export function sanitizeProviderError(detail: string): string {
  return detail
    .replace(/[^\x20-\x7e]+/g, ' ')
    .slice(0, MAX_PROVIDER_ERROR_CHARACTERS)
    .trim();
}
