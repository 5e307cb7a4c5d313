import { z } from 'zod';
import { escapeHtml, proseHtml } from './html.ts';

/** As much of a JSON schema as the tables show. */
interface Shape {
  /** `#/$defs/NAME` */
  $ref?: string;
  $defs?: Record<string, Shape>;
  type?: string;
  description?: string;
  properties?: Record<string, Shape>;
  required?: string[];
  items?: Shape;
  anyOf?: Shape[];
  oneOf?: Shape[];
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
}

/** Tables of a schema's fields, one for each alternative. */
export function fieldTables(schema: z.ZodType, io: 'input' | 'output'): string {
  const shape = z.toJSONSchema(schema, {
    io,
    reused: 'inline',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const { override } = z.globalRegistry.get(zodSchema) ?? {};
      if (typeof override === 'object') Object.assign(jsonSchema, override);
    },
  }) as Shape;
  const whole = inlined(shape, shape.$defs ?? {});
  return (whole.oneOf ?? [whole]).map(tableOf).join('');
}

/** The schema with its references followed; none of ours refers to itself. */
function inlined(shape: Shape, defs: Record<string, Shape>): Shape {
  const { $ref, ...own } = shape;
  const target = $ref === undefined ? {} : defs[$ref.slice($ref.lastIndexOf('/') + 1)];
  const { properties, items, oneOf, ...rest } = { ...target, ...own };
  const inner = (one: Shape) => inlined(one, defs);
  return {
    ...rest,
    ...(items && { items: inner(items) }),
    ...(oneOf && { oneOf: oneOf.map(inner) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, one]) => [name, inner(one)]),
      ),
    }),
  };
}

function tableOf(shape: Shape): string {
  const rows = rowsOf(shape, '');
  return `<table><thead><tr><th>Field</th><th>Type</th><th>Meaning</th></tr></thead><tbody>${rows}</tbody></table>`;
}

function rowsOf(shape: Shape, prefix: string): string {
  return Object.entries(shape.properties ?? {})
    .map(([name, field]) => {
      const required = shape.required?.includes(name) ? ' <b title="required">*</b>' : '';
      const path = `${prefix}${name}`;
      const row = `<tr><td><code>${escapeHtml(path)}</code>${required}</td><td>${typeText(field)}</td><td>${meaning(field)}</td></tr>`;
      return row + rowsOf(field, `${path}.`) + rowsOf(field.items ?? {}, `${path}[].`);
    })
    .join('');
}

function typeText(shape: Shape): string {
  const alternatives = shape.anyOf ?? shape.oneOf;
  if (alternatives !== undefined) return [...new Set(alternatives.map(typeText))].join(' or ');
  if (shape.enum !== undefined) return codes(shape.enum);
  if (shape.const !== undefined) return codes([shape.const]);
  if (shape.type === 'array') return `array of ${typeText(shape.items ?? {})}`;
  return escapeHtml(shape.type ?? 'any');
}

function codes(values: readonly unknown[]): string {
  return values.map((value) => `<code>${escapeHtml(String(value))}</code>`).join(', ');
}

function meaning(shape: Shape): string {
  return [proseHtml(shape.description ?? ''), limitsOf(shape)].filter(Boolean).join(' ');
}

function limitsOf(shape: Shape): string {
  const isIn = (value: number | undefined) =>
    value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;
  const limits = [
    isIn(shape.minimum) && `from ${shape.minimum}`,
    isIn(shape.maximum) && `to ${shape.maximum}`,
    isIn(shape.maxLength) && `at most ${shape.maxLength} characters`,
    isIn(shape.maxItems) && `at most ${shape.maxItems} entries`,
    shape.default !== undefined && `${shape.default} unless given`,
  ].filter((text) => typeof text === 'string');
  return limits.length === 0 ? '' : `<small>${escapeHtml(limits.join(', '))}</small>`;
}
