import type { Document } from 'mongodb';

/** A change of some documents by one statement. */
export interface BulkChange {
  ids: readonly string[];
  filter: Document;
  /** A pipeline, or operators such as `$set`. */
  update: Document[] | Document;
}

/** Returns an expression for a document's own value out of a list in the order of the keys. */
type PickValue = (values: readonly unknown[]) => Document;

const pickOnly: PickValue = ([value]) => ({ $literal: value });

/**
 * Builds an update that gives each of many documents its own values in one statement. MongoDB plans and parses a
 * statement once; one statement per document costs it three times the CPU.
 *
 * @param keyField the field that identifies the documents, such as `$_id`
 * @param keys the values of that field; the update's filter must exclude documents with other values
 * @param buildFields the fields, as in `$set` of a pipeline
 */
export function setPerDocument(
  keyField: string,
  keys: readonly string[],
  buildFields: (pick: PickValue) => Document,
): Document[] {
  // Most are alone: without lists to search, a claim takes a fifth less CPU.
  if (keys.length === 1) return [{ $set: buildFields(pickOnly) }];
  const pick: PickValue = (values) =>
    values.every((value) => value === values[0])
      ? pickOnly(values)
      : { $arrayElemAt: [{ $literal: values }, '$place'] };
  const keyIndex = { $indexOfArray: [{ $literal: keys }, keyField] };
  return [{ $set: { place: keyIndex } }, { $set: buildFields(pick) }, { $unset: 'place' }];
}
