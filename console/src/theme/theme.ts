// Mantine's theme. Chrome is ink, colour is data: the tokens themselves are in app.css.
import { createTheme, defaultVariantColorsResolver, type MantineColorsTuple } from '@mantine/core'

const ink: MantineColorsTuple = [
  '#F4F5F7',
  '#E6E9EE',
  '#CDD3DC',
  '#AEB7C4',
  '#8791A0',
  '#677080',
  '#4A5361',
  '#333B47',
  '#1F2631',
  '#14181F',
]
const dark: MantineColorsTuple = [
  '#E8ECF2',
  '#B4BDCA',
  '#97A1B0',
  '#7C8796',
  '#39424E',
  '#2A323D',
  '#1C222B',
  '#151A21',
  '#0E1116',
  '#0A0C10',
]

export const theme = createTheme({
  primaryColor: 'ink',
  primaryShade: { light: 9, dark: 1 },
  autoContrast: true,
  colors: { ink, dark },
  // `autoContrast` picks a filled button's text for the light scheme only, so the one filled button
  // takes its colours from the page's own tokens.
  variantColorResolver: (input) =>
    input.variant === 'filled' && (!input.color || input.color === 'ink')
      ? { background: 'var(--ink)', hover: 'var(--ink-2)', color: 'var(--bg)', border: '1px solid transparent' }
      : defaultVariantColorsResolver(input),
  fontFamily:
    "'Inter Variable', -apple-system, 'Segoe UI', 'Noto Sans SC', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif",
  fontFamilyMonospace:
    "'JetBrains Mono', ui-monospace, 'Cascadia Mono', Menlo, Consolas, 'Noto Sans CJK SC', monospace",
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '16px', xl: '20px' },
  spacing: { xs: '8px', sm: '12px', md: '16px', lg: '24px', xl: '32px' },
  radius: { xs: '3px', sm: '5px', md: '8px', lg: '10px', xl: '14px' },
  defaultRadius: 'sm',
})
