import { Group, NativeSelect, TextInput } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import { fromInputText, isRangeName, type RangeSearch, toInputText } from '../lib/time-range.ts';

/** Shows the filters of a list in one line, which wraps on a phone. */
export function Filters({ children }: { children: ReactNode }) {
  return (
    <Group gap="xs" align="flex-end" component="search" aria-label="Filters">
      {children}
    </Group>
  );
}

interface ChoiceProps {
  label: string;
  value: string | undefined;
  options: readonly { value: string; label: string }[];
  onChange: (value: string | undefined) => void;
}

/** Shows a filter with few choices; the first choice is no filter. */
export function Choice({ label, value, options, onChange }: ChoiceProps) {
  return (
    <NativeSelect
      size="xs"
      label={label}
      value={value ?? ''}
      data={[{ value: '', label: 'All' }, ...options]}
      onChange={({ currentTarget }) => onChange(currentTarget.value || undefined)}
    />
  );
}

interface TextFilterProps {
  label: string;
  value: string | undefined;
  placeholder?: string;
  width?: number;
  onChange: (value: string | undefined) => void;
}

/** Shows a filter by text, which applies with Enter or when it is left. */
export function TextFilter({ label, value, placeholder, width = 200, onChange }: TextFilterProps) {
  const [text, setText] = useState(value ?? '');
  useEffect(() => setText(value ?? ''), [value]);
  const apply = () => {
    const trimmed = text.trim();
    if (trimmed !== (value ?? '')) onChange(trimmed === '' ? undefined : trimmed);
  };
  return (
    <TextInput
      size="xs"
      w={width}
      label={label}
      value={text}
      data-filter
      spellCheck={false}
      {...(placeholder !== undefined && { placeholder })}
      onChange={({ currentTarget }) => setText(currentTarget.value)}
      onBlur={apply}
      onKeyDown={({ key }) => key === 'Enter' && apply()}
    />
  );
}

const RANGE_OPTIONS = [
  { value: '', label: 'Any time' },
  { value: '15m', label: 'Last 15 minutes' },
  { value: '1h', label: 'Last hour' },
  { value: '6h', label: 'Last 6 hours' },
  { value: '24h', label: 'Last 24 hours' },
  { value: '7d', label: 'Last 7 days' },
  { value: '30d', label: 'Last 30 days' },
  { value: 'custom', label: 'From … to …' },
];

interface RangeFilterProps {
  value: RangeSearch;
  onChange: (value: RangeSearch) => void;
}

/** Shows the filter by time: a range that ends now, or two moments in the viewer's zone. */
export function RangeFilter({ value, onChange }: RangeFilterProps) {
  const isCustom = value.from !== undefined || value.to !== undefined;
  const shown = isCustom ? 'custom' : isRangeName(value.range) ? value.range : '';
  const choose = (range: string) => {
    const hourAgo = String(Math.floor((Date.now() - 3_600_000) / 60_000) * 60_000);
    if (range === 'custom') onChange({ range: undefined, from: hourAgo, to: undefined });
    else onChange({ range: range || undefined, from: undefined, to: undefined });
  };
  return (
    <>
      <NativeSelect
        size="xs"
        label="Time"
        value={shown}
        data={RANGE_OPTIONS}
        onChange={({ currentTarget }) => choose(currentTarget.value)}
      />
      {isCustom && (
        <>
          <MomentInput
            label="From"
            value={value.from}
            onChange={(from) => onChange({ ...value, range: undefined, from })}
          />
          <MomentInput
            label="To"
            value={value.to}
            onChange={(to) => onChange({ ...value, range: undefined, to })}
          />
        </>
      )}
    </>
  );
}

interface MomentInputProps {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

function MomentInput({ label, value, onChange }: MomentInputProps) {
  return (
    <TextInput
      size="xs"
      type="datetime-local"
      label={label}
      value={toInputText(value === undefined ? undefined : Number(value))}
      onChange={({ currentTarget }) => onChange(fromInputText(currentTarget.value))}
    />
  );
}
