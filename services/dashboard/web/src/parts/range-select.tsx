import { NativeSelect } from '@mantine/core';

interface RangeSelectProps<Name extends string> {
  value: Name;
  options: readonly { value: Name; label: string }[];
  onChange: (value: Name) => void;
}

/** Shows the choice of a range that ends now. */
export function RangeSelect<Name extends string>(props: RangeSelectProps<Name>) {
  const { value, options, onChange } = props;
  return (
    <NativeSelect
      size="xs"
      aria-label="Time range"
      value={value}
      data={options.map((option) => ({ value: option.value, label: option.label }))}
      onChange={({ currentTarget }) => {
        const chosen = options.find((option) => option.value === currentTarget.value);
        if (chosen !== undefined) onChange(chosen.value);
      }}
    />
  );
}
