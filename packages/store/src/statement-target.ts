import type { Document } from 'mongodb';
import { SHARD_KEYS, type ShardKey, UNSHARDED } from './shard-keys.ts';

/**
 * The shards that execute a statement in a sharded cluster.
 *
 * - `unsharded`: that of a collection that is not divided
 * - `one`: that of one value of the shard key
 * - `some`: those of the values that the statement lists
 * - `range`: that of one range of values, or of a few; two where a chunk ends
 * - `all`: every shard
 * - `refused`: none; MongoDB before 7.1 returns an error
 * - `unknown`: the command is not one of those that are classified here
 */
export type Target = 'unsharded' | 'one' | 'some' | 'range' | 'all' | 'refused' | 'unknown';

/** A kind of statement: its command, collection and the fields of its filter, without values. */
export interface StatementShape {
  /** For example `updateMany pushes _id in, state =`. */
  shape: string;
  target: Target;
}

/** Commands that read and write no documents by a filter, or that follow such a one. */
const OTHER_COMMANDS: ReadonlySet<string> = new Set([
  ...['hello', 'ping', 'buildInfo', 'dbStats', 'endSessions', 'getMore', 'killCursors'],
  ...['createIndexes', 'dropIndexes', 'listIndexes', 'listCollections'],
]);

/** Order of targets: a statement with several filters costs as much as the widest. */
const WIDTHS: readonly Target[] = ['unsharded', 'one', 'some', 'range', 'all', 'refused'];

/**
 * Classifies the statements of a command, as the driver's command monitoring reports it. A command may hold several statements;
 * equal ones are returned once.
 */
export function classifyCommand(name: string, command: Document): StatementShape[] {
  if (OTHER_COMMANDS.has(name)) return [];
  const classify = CLASSIFIERS[name];
  if (classify === undefined) return [{ shape: name, target: 'unknown' }];
  const collection = String(command[name]);
  const shapes = classify(command, collection).map(({ operation = name, filter, target, of }) => ({
    shape: [operation, of ?? collection, ...describeFilter(filter)].join(' '),
    target,
  }));
  return [...new Map(shapes.map((one) => [`${one.shape} ${one.target}`, one])).values()];
}

interface ClassifiedFilter {
  /** Name of the operation; absent: that of the command. */
  operation?: string;
  /** The collection; absent: that of the command. */
  of?: string;
  filter: Document;
  target: Target;
}

type Classifier = (command: Document, collection: string) => ClassifiedFilter[];

const CLASSIFIERS: Readonly<Record<string, Classifier>> = {
  insert: ({ documents }, collection) => [
    { filter: {}, target: widest(asList(documents).map((one) => targetOf(collection, one))) },
  ],
  update: ({ updates }, collection) =>
    asList(updates).map(({ q, multi, upsert }) => ({
      operation: multi === true ? 'updateMany' : 'updateOne',
      filter: q,
      target: writeTarget(collection, q, multi === true && upsert !== true),
    })),
  delete: ({ deletes }, collection) =>
    asList(deletes).map(({ q, limit }) => ({
      operation: limit === 0 ? 'deleteMany' : 'deleteOne',
      filter: q,
      target: writeTarget(collection, q, limit === 0),
    })),
  findAndModify: ({ query }, collection) => [
    { filter: query, target: writeTarget(collection, query, false) },
  ],
  find: ({ filter }, collection) => [read(collection, filter)],
  count: ({ query = {} }, collection) => [read(collection, query)],
  distinct: ({ query }, collection) => [read(collection, query)],
  aggregate: ({ pipeline }, collection) => readPipeline(collection, asList(pipeline)),
};

/** Classifies a pipeline by its first stage, and those that it joins with others. */
function readPipeline(collection: string, stages: readonly Document[]): ClassifiedFilter[] {
  const joined = stages.flatMap(({ $unionWith: union, $lookup: lookup }) => {
    if (union !== undefined) return readPipeline(union.coll, asList(union.pipeline));
    if (lookup === undefined) return [];
    const { from, foreignField, pipeline } = lookup;
    const [first, ...others] = asList(pipeline);
    // Each document that comes in is joined by one value.
    const filter = { ...first?.$match, ...(foreignField !== undefined && { [foreignField]: '' }) };
    return readPipeline(from, [{ $match: filter }, ...others]);
  });
  return [{ ...read(collection, stages[0]?.$match ?? {}), of: collection }, ...joined];
}

function asList(value: unknown): Document[] {
  return Array.isArray(value) ? value : [];
}

function read(collection: string, filter: Document): ClassifiedFilter {
  return { filter, target: targetOf(collection, filter) };
}

/** Classifies an update or a deletion: of a single document, the filter has to equal the shard key. */
function writeTarget(collection: string, filter: Document, isMany: boolean): Target {
  const target = targetOf(collection, filter);
  return isMany || target === 'unsharded' || target === 'one' ? target : 'refused';
}

function targetOf(collection: string, filter: Document): Target {
  if (Object.hasOwn(UNSHARDED, collection)) return 'unsharded';
  const key = SHARD_KEYS[collection];
  return key === undefined ? 'unknown' : (findTarget(filter, key) ?? 'all');
}

/** Returns the shards that a filter selects by the shard key; undefined if it does not contain the key. */
function findTarget(filter: Document, key: ShardKey): Target | undefined {
  const found = [targetOfCondition(filter[key.field], key)];
  for (const part of asList(filter.$and)) found.push(findTarget(part, key));
  const branches = asList(filter.$or).map((branch) => findTarget(branch, key));
  if (branches.length > 0 && !branches.includes(undefined))
    found.push(branches.length === 1 ? branches[0] : widest(['some', ...branches]));
  const known = found.filter((target) => target !== undefined);
  return known.toSorted((a, b) => WIDTHS.indexOf(a) - WIDTHS.indexOf(b))[0];
}

function targetOfCondition(condition: unknown, { kind }: ShardKey): Target | undefined {
  if (condition === undefined) return undefined;
  if (!isOperators(condition)) return 'one';
  if ('$eq' in condition) return 'one';
  if ('$in' in condition) return 'some';
  const isBounded =
    ('$gt' in condition || '$gte' in condition) && ('$lt' in condition || '$lte' in condition);
  return kind === 'ranged' && isBounded ? 'range' : undefined;
}

function isOperators(condition: unknown): condition is Document {
  if (typeof condition !== 'object' || condition === null) return false;
  const [first = ''] = Object.keys(condition);
  return first.startsWith('$');
}

function widest(targets: readonly (Target | undefined)[]): Target {
  return WIDTHS.findLast((width) => targets.includes(width)) ?? 'unknown';
}

/** Operators that find nothing by themselves: they are left out, so that optional ones make no shapes of their own. */
const EXCLUSIONS: ReadonlySet<string> = new Set(['$ne', '$nin', '$not']);
const OPERATOR_NAMES: Readonly<Record<string, string>> = {
  ...{ $eq: '=', $in: 'in', $exists: 'exists', $regex: 'matches', $elemMatch: 'has' },
  ...{ $gt: '>', $gte: '>', $lt: '<', $lte: '<' },
};

/** Lists the fields of a filter with their operators, in order of name. */
function describeFilter(filter: Document): string[] {
  const parts = Object.entries(filter).flatMap(([field, condition]) => {
    if (field === '$and') return asList(condition).flatMap(describeFilter);
    if (field === '$or') {
      const branches = new Set(asList(condition).map((one) => describeFilter(one).join(' ')));
      return [`(${[...branches].sort().join(' | ')})`];
    }
    if (field === '$nor') return [];
    if (field === '$expr') return [`computed(${listPaths(condition).join(' ')})`];
    const operators = describeCondition(condition);
    return operators === '' ? [] : [`${field} ${operators}`];
  });
  return [...new Set(parts)].sort().map((part, index, all) => {
    return index < all.length - 1 ? `${part},` : part;
  });
}

function describeCondition(condition: unknown): string {
  if (!isOperators(condition)) return '=';
  const names = Object.keys(condition).filter((name) => !EXCLUSIONS.has(name));
  return [...new Set(names.map((name) => OPERATOR_NAMES[name] ?? name))].sort().join('');
}

/** Lists the fields that an expression reads. */
function listPaths(expression: unknown): string[] {
  const text = JSON.stringify(expression);
  const paths = [...text.matchAll(/"\$([a-zA-Z_][\w.]*)"(?!:)/g)].map(([, path = '']) => path);
  return [...new Set(paths)].sort();
}
