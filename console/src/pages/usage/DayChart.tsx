// Card-hours of each day by tenant, idle on top, up to the capacity. ECharts is loaded with it only.
import { useComputedColorScheme } from '@mantine/core'
import { BarChart } from 'echarts/charts'
import { AriaComponent, GridComponent, TooltipComponent } from 'echarts/components'
import { init, use } from 'echarts/core'
import { CanvasRenderer } from 'echarts/renderers'
import { useEffect, useRef } from 'react'
import { findMark, type Pattern } from '../../theme/marks'
import { findLocale, formatAmount } from '../../ui/format'
import type { DaySeries } from './days'

use([BarChart, GridComponent, TooltipComponent, AriaComponent, CanvasRenderer])

const INK = 'rgba(255,255,255,.55)'
/** The patterns of the tenant marks in the words of ECharts. */
const DECALS: Record<Pattern, object> = {
  solid: { symbol: 'none' },
  slash: { symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [1, 4], rotation: -0.78, color: INK },
  dots: { symbol: 'circle', symbolSize: 0.5, dashArrayX: [[5, 5]], dashArrayY: [5, 0], color: INK },
  lines: { symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [1, 3], color: INK },
}

interface DayChartProps {
  readonly days: readonly string[]
  readonly series: readonly DaySeries[]
  readonly label: string
}

export default function DayChart({ days, series, label }: DayChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const scheme = useComputedColorScheme('light')
  // biome-ignore lint/correctness/useExhaustiveDependencies: the scheme decides what is read from the page.
  useEffect(() => {
    if (!box.current) return
    const root = getComputedStyle(document.documentElement)
    const chart = init(box.current, undefined, { renderer: 'canvas' })
    chart.setOption(makeOption(days, series, (name) => root.getPropertyValue(name).trim()))
    const observer = new ResizeObserver(() => chart.resize())
    observer.observe(box.current)
    return () => {
      observer.disconnect()
      chart.dispose()
    }
  }, [days, series, scheme])
  return <div ref={box} className="usage-chart" role="img" aria-label={label} />
}

function makeOption(days: readonly string[], series: readonly DaySeries[], read: (name: string) => string) {
  const axis = { axisTick: { show: false }, axisLabel: { color: read('--ink-3'), fontSize: 11 } }
  return {
    animation: false,
    grid: { left: 56, right: 10, top: 14, bottom: 24 },
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    tooltip: {
      trigger: 'axis',
      axisPointer: { type: 'shadow', shadowStyle: { color: read('--ink'), opacity: 0.05 } },
      backgroundColor: read('--ink'),
      borderWidth: 0,
      textStyle: { color: read('--bg'), fontSize: 12 },
      // Names of tenants are others' text: the tooltip is drawn, not written as HTML.
      renderMode: 'richText',
      valueFormatter: (hours: number | null) => formatAmount(hours, 1),
    },
    xAxis: { ...axis, type: 'category', data: days, axisLine: { lineStyle: { color: read('--line-2') } } },
    yAxis: {
      ...axis,
      type: 'value',
      min: 0,
      splitLine: { lineStyle: { color: read('--line') } },
      axisLabel: {
        ...axis.axisLabel,
        // Marks are round numbers: all their digits, or 0.05 would read as 0.1.
        formatter: (hours: number) => new Intl.NumberFormat(findLocale(), { maximumFractionDigits: 4 }).format(hours),
      },
    },
    series: series.map(({ name, tenant, isReserved, hours }) => {
      const mark = findMark(tenant)
      return {
        name,
        type: 'bar',
        stack: 'all',
        barCategoryGap: '22%',
        // Null is a day that is not known: a gap, never 0.
        data: [...hours],
        itemStyle: tenant
          ? { color: mark.hex, borderColor: read('--surface'), borderWidth: 0.7, decal: DECALS[mark.pattern] }
          : {
              color: read('--cell'),
              borderColor: read('--line-2'),
              borderWidth: 0.7,
              decal: isReserved ? { ...DECALS.lines, color: read('--ink-3') } : DECALS.solid,
            },
      }
    }),
  }
}
