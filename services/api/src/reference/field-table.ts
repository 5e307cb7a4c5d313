import { z } from 'zod';
import { escapeHtml, renderName, renderProse, renderTable } from './html.ts';

/** Keywords of a JSON schema that the tables show. */
interface JsonSchema {
  /** `#/$defs/NAME` */
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  type?: string;
  description?: string;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
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

/** Renders a schema's fields as tables, one for each alternative. */
export function renderFieldTables(schema: z.ZodType, io: 'input' | 'output'): string {
  const shape = z.toJSONSchema(schema, {
    io,
    reused: 'inline',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const { override } = z.globalRegistry.get(zodSchema) ?? {};
      if (typeof override === 'object') Object.assign(jsonSchema, override);
    },
  }) as JsonSchema;
  const inlinedSchema = inlineReferences(shape, shape.$defs ?? {});
  return (inlinedSchema.oneOf ?? [inlinedSchema]).map(renderFieldTable).join('');
}

/** Replaces references by their targets. None of our schemas is recursive. */
function inlineReferences(shape: JsonSchema, defs: Record<string, JsonSchema>): JsonSchema {
  const { $ref, ...ownFields } = shape;
  const target = $ref === undefined ? {} : defs[$ref.slice($ref.lastIndexOf('/') + 1)];
  const { properties, items, oneOf, ...rest } = { ...target, ...ownFields };
  const inline = (one: JsonSchema) => inlineReferences(one, defs);
  return {
    ...rest,
    ...(items && { items: inline(items) }),
    ...(oneOf && { oneOf: oneOf.map(inline) }),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, one]) => [name, inline(one)]),
      ),
    }),
  };
}

function renderFieldTable(shape: JsonSchema): string {
  return renderTable('Fields', ['Field', 'Type', 'Description'], renderRows(shape, ''));
}

function renderRows(shape: JsonSchema, prefix: string): string {
  return Object.entries(shape.properties ?? {})
    .map(([name, field]) => {
      const required = shape.required?.includes(name) ? ' <b title="required">*</b>' : '';
      const path = `${prefix}${name}`;
      const row = `<tr><td>${renderName(path)}${required}</td><td>${formatType(field)}</td><td>${formatMeaning(field)}</td></tr>`;
      return row + renderRows(field, `${path}.`) + renderRows(field.items ?? {}, `${path}[].`);
    })
    .join('');
}

function formatType(shape: JsonSchema): string {
  const alternatives = shape.anyOf ?? shape.oneOf;
  if (alternatives !== undefined) return [...new Set(alternatives.map(formatType))].join(' or ');
  if (shape.enum !== undefined) return formatCodes(shape.enum);
  if (shape.const !== undefined) return formatCodes([shape.const]);
  if (shape.type === 'array') return `array of ${formatType(shape.items ?? {})}`;
  return escapeHtml(shape.type ?? 'any');
}

function formatCodes(values: readonly unknown[]): string {
  return values.map((value) => `<code>${escapeHtml(String(value))}</code>`).join(', ');
}

function formatMeaning(shape: JsonSchema): string {
  return [renderProse(shape.description ?? ''), formatLimits(shape)].filter(Boolean).join(' ');
}

function formatLimits(shape: JsonSchema): string {
  const isBounded = (value: number | undefined) =>
    value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;
  const limits = [
    isBounded(shape.minimum) && `minimum ${shape.minimum}`,
    isBounded(shape.maximum) && `maximum ${shape.maximum}`,
    isBounded(shape.maxLength) && `at most ${shape.maxLength} characters`,
    isBounded(shape.maxItems) && `at most ${shape.maxItems} items`,
    shape.default !== undefined && `default ${shape.default}`,
  ].filter((text) => typeof text === 'string');
  return limits.length === 0 ? '' : `<small>${escapeHtml(limits.join(', '))}</small>`;
}
