import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { api } from '../../api/client'
import { formatClock } from '../../ui/format'
import { buildUsePath } from './usePath'

const REFRESH_MS = 15_000
const WIDTH = 260
const HEIGHT = 56
/** The top of the chart in per cent of its own share: a burst goes beyond 100. */
const MOST = 120

/** Use of its own share over time; the dashed line is the whole share. */
export function UseChart(props: { job: string }) {
  const { t } = useTranslation('job')
  const answer = useQuery({
    queryKey: ['job', props.job, 'use'],
    queryFn: async () => (await api.GET('/api/v1/jobs/{job}/use', { params: { path: { job: props.job } } })).data,
    refetchInterval: REFRESH_MS,
  })
  const use = answer.data
  if (!use || use.at_ns.length < 2) return null
  const whole = HEIGHT - (100 / MOST) * HEIGHT
  const start = formatClock(use.at_ns[0])
  return (
    <figure className="use-chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={t('useSince', { time: start })}>
        <line x1="0" x2={WIDTH} y1={whole} y2={whole} stroke="var(--ink-3)" strokeDasharray="3 3" />
        <line x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} stroke="var(--line-2)" />
        <path
          d={buildUsePath(use.at_ns, use.share_percent, { width: WIDTH, height: HEIGHT, most: MOST })}
          fill="none"
          stroke="var(--run)"
          strokeWidth="1.5"
        />
      </svg>
      <figcaption className="small dim">{t('useSince', { time: start })}</figcaption>
    </figure>
  )
}
