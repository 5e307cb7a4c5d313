import { registerHooks } from 'node:module';

/**
 * Adds an option to `POST /push` in each process that loads this file first (`node --import`), by the two edits of
 * docs/change/add-a-field-to-post-push.md: a line of the table, and one of the function that builds an APNs request.
 */
const EDITS: Readonly<Record<string, [before: string, added: string]>> = {
  '/packages/core/src/push-options.ts': [
    'export const pushOptions = {',
    ' added_option: z.string().optional(),',
  ],
  '/services/delivery-worker/src/channels/apns/payload.ts': [
    "...(options.mutable_content === true && { 'mutable-content': 1 }),",
    " ...('added_option' in options && { 'added-option': options.added_option }),",
  ],
};

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const edit = Object.entries(EDITS).find(([path]) => url.endsWith(path))?.[1];
    if (edit === undefined) return loaded;
    const [before, added] = edit;
    const source = String(loaded.source);
    if (!source.includes(before)) throw new Error(`${url} does not have: ${before}`);
    return { ...loaded, source: source.replace(before, before + added) };
  },
});
